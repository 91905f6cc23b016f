/// imex-admin: administer the NVLink partition controller.
#include "tree.hpp"

int main(int argc, char** argv) {
  imex::admin::CommandTree tree;
  return tree.run(argc, argv);
}
