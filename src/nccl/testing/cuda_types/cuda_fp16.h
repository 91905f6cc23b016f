/* The header of NCCL includes this, and takes nothing from it. */
