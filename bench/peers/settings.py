"""The peers and their tuned settings: which environment, for which sizes, for which operations."""

from dataclasses import dataclass, field
from pathlib import Path
import platform

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Setting:
    """One way to run one peer; used for vectors of `low` to `high` bytes."""

    peer: str
    name: str
    environment: dict = field(default_factory=dict)
    low: int = 0
    high: int = 64 * MIB
    all_reduce_only: bool = False

    @property
    def label(self):
        return f"{PEERS[self.peer]}: {self.name}"

    def sizes(self, operation, wanted):
        if self.all_reduce_only and operation != "all-reduce":
            return []
        return [size for size in wanted if self.low <= size <= self.high]


PEERS = {"openmpi5": "Open MPI 5", "openmpi4": "Open MPI 4.1", "impi": "Intel MPI", "mpich": "MPICH"}

# UCX is refused by Open MPI on a machine without a fast network unless told that any transport will do.
_UCX = {
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_opal_common_ucx_tls": "any",
    "OMPI_MCA_opal_common_ucx_devices": "any",
    "UCX_TLS": "posix,cma,self",
}
_LARGE_ELEMENTS = {"UCX_POSIX_FIFO_ELEM_SIZE": "4096"}
_RECURSIVE_DOUBLING = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_allreduce_algorithm": "3"}
_PUT = {"UCX_RNDV_SCHEME": "put_zcopy"}
_SM = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm"}
_VADER = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader"}


def _vector_transport():
    """Intel MPI's copy routines for the widest vectors that this processor has."""
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        flags = ""
    return "skx_avx512" if "avx512bw" in flags else "skx_avx2"


def _intel(algorithm):
    return {"I_MPI_ADJUST_ALLREDUCE": str(algorithm)}


SETTINGS = [
    Setting("openmpi5", "ucx", _UCX),
    Setting("openmpi5", "ucx, recursive doubling", _UCX | _RECURSIVE_DOUBLING, high=KIB, all_reduce_only=True),
    Setting("openmpi5", "ucx, 4 KiB elements, recursive doubling",
            _UCX | _LARGE_ELEMENTS | _RECURSIVE_DOUBLING, 64, 64 * KIB, True),
    Setting("openmpi5", "ucx put, 4 KiB elements", _UCX | _LARGE_ELEMENTS | _PUT, 4 * KIB, 4 * MIB),
    Setting("openmpi5", "sm, eager 32 KiB", _SM | {"OMPI_MCA_btl_sm_eager_limit": "32768"}, 0, 256 * KIB),
    Setting("openmpi5", "sm + cma", _SM | {"OMPI_MCA_smsc": "cma"}, 16 * KIB),
    Setting("openmpi4", "ucx, 4 KiB elements", _UCX | _LARGE_ELEMENTS, 0, 256 * KIB),
    Setting("openmpi4", "vader, eager 32 KiB",
            _VADER | {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_btl_vader_eager_limit": "32768"},
            0, 64 * KIB),
    Setting("openmpi4", "vader without cma", _VADER | {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"},
            4 * KIB, MIB),
    Setting("openmpi4", "vader + cma", _VADER | {"OMPI_MCA_btl_vader_single_copy_mechanism": "cma"}, 16 * KIB),
    Setting("impi", "default"),
    Setting("impi", _vector_transport(), {"I_MPI_SHM": _vector_transport()}, 64, 256 * KIB),
    Setting("impi", "allreduce 10", _intel(10), 0, 4 * KIB, True),
    Setting("impi", "allreduce 2", _intel(2), 4 * KIB, MIB, True),
    Setting("impi", "allreduce 14", _intel(14), 16 * KIB, 4 * MIB, True),
    Setting("impi", "allreduce 13", _intel(13), 256 * KIB, 64 * MIB, True),
    Setting("mpich", "default"),
    Setting("mpich", "posix release-gather",
            {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "release_gather",
             "MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD": "0"}, 0, 64 * KIB, True),
]


def launch(peers_folder, setting, ranks, cores):
    """The command in front of `peer_collective`, and its environment. Each rank pins itself: no binding."""
    folder = peers_folder / setting.peer
    crowded = ranks > cores
    if setting.peer == "impi":
        environment = {"I_MPI_ROOT": folder, "I_MPI_FABRICS": "shm", "I_MPI_PIN": "0"}
        if crowded:
            environment["I_MPI_THREAD_YIELD"] = "2"
        command = [folder / "bin/mpiexec.hydra", "-n", ranks]
    elif setting.peer == "mpich":
        environment = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "50"} if crowded else {}
        command = [folder / "bin/mpiexec.hydra", "-n", ranks]
    else:
        environment = {"OMPI_MCA_mpi_yield_when_idle": "1"} if crowded else {}
        for launcher in ("OMPI", "PRTE"):  # both refuse root unless told twice; root is not needed
            environment[f"{launcher}_ALLOW_RUN_AS_ROOT"] = environment[f"{launcher}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        mpirun = folder / "bin/mpirun"
        if setting.peer == "openmpi4":
            mpirun = folder / "usr/bin/mpirun.openmpi"
            environment |= _unpacked_debian(folder)
        command = [mpirun, "--oversubscribe", "--bind-to", "none", "-n", ranks]
    environment |= setting.environment
    return [str(word) for word in command], {name: str(value) for name, value in environment.items()}


def _unpacked_debian(folder):
    """Debian's Open MPI looks for its parts under /usr; these tell it where they were unpacked."""
    multiarch = f"{platform.machine()}-linux-gnu"
    libraries = folder / "usr/lib" / multiarch
    path = [libraries, libraries / "openmpi/lib", libraries / "pmix2/lib", folder / "lib" / multiarch]
    return {
        "OPAL_PREFIX": folder / "usr",
        "PMIX_INSTALL_PREFIX": libraries / "pmix2",
        "PMIX_MCA_pcompress_base_silence_warning": "1",
        "UCX_MODULE_DIR": libraries / "ucx",
        "LD_LIBRARY_PATH": ":".join(map(str, path)),
        "OMPI_MCA_mca_base_component_show_load_errors": "0",
    }
