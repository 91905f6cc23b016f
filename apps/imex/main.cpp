/// imex: ask and steer the daemons of this machine, and measure.
#include "tree.hpp"

int main(int argc, char** argv) {
  imex::cli::CommandTree tree;
  return tree.run(argc, argv);
}
