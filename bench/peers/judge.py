"""From measured rows to a verdict: placement, medians over rounds, best peer of each size, marks."""

from dataclasses import dataclass
from statistics import median

KIB, MIB = 1 << 10, 1 << 20

# Bytes up to which a mark holds, from the previous one's end on; times faster than the best peer, and the stretch.
PRIVATE = {8: (2, 2.4), 512: (1.8, 2.2), KIB: (1.4, 1.8), 4 * KIB: (1.4, 1.6), 16 * KIB: (1.1, 1.3),
           64 * KIB: (1.15, 1.3), 64 * MIB: (1, 1.15)}
REGISTERED = {KIB: (1.6, 2), 4 * KIB: (2.1, 3), 16 * KIB: (1.9, 2.5), 64 * KIB: (2.4, 4), 256 * KIB: (2.8, 4),
              4 * MIB: (3, 4.5), 16 * MIB: (3.5, 4), 64 * MIB: (1.7, 3)}
MARKED_SIZES = (8, 64, 128, 256, 512, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
FLOOR_SHARES = {8: 0.80, 4 * KIB: 0.55, 16 * KIB: 0.45}
OTHER_OPERATION_SIZES = (0, 8, 4 * KIB, 64 * KIB, MIB)
CROWDED_SIZES = (8, KIB, 16 * KIB, 256 * KIB)
CROWDED_P99, CROWDED_P99_US = ("all-reduce", 8, 8 * KIB), 2000


def placement_of(row):
    """'near' or 'far', as placement.h tells them apart; None for a row that must be dropped: the cores moved, or were
    threads of one, or one only."""
    return row["core_distance"] if row["core_distance"] in ("near", "far") else None


def buffers_of(operation):
    """Kinds of buffers that ours is measured with."""
    return ("private",) if operation == "barrier" else ("private", "registered")


@dataclass
class Figure:
    """One program at one size and placement over all its valid rounds."""

    program: str
    bytes: int
    placement: str
    median_us: float
    mad_us: float
    p99_us: float
    n: int
    rounds: int
    round_trip_ns: float
    pages: str
    share_of_limit: float | None


def figures(rows):
    """Medians over the rounds of each (program, bytes, placement); rows without a placement do not count."""
    groups = {}
    for row in rows:
        if row["placement"] is not None:
            groups.setdefault((row["program"], row["bytes"], row["placement"]), []).append(row)
    return {key: _figure(key, group) for key, group in groups.items()}


def _figure(key, group):
    center = median(row["median_us"] for row in group)
    shares = [row["share_of_limit"] for row in group if row.get("share_of_limit") is not None]
    return Figure(
        *key,
        median_us=center,
        mad_us=median(abs(row["median_us"] - center) for row in group),
        p99_us=median(row["p99_us"] for row in group),
        n=sum(row["n"] for row in group),
        rounds=len(group),
        round_trip_ns=median(trip for row in group for trip in row["round_trip_ns"]),
        pages="/".join(sorted({str(row.get("pages", "unknown")) for row in group})),
        share_of_limit=median(shares) if shares else None,
    )


def complete_rounds(rows, places):
    """How many valid rounds every size has in some placement, by all programs that measure that size."""
    programs = {}
    for row in rows:
        programs.setdefault(row["bytes"], set()).add(row["program"])
    found = figures(rows)

    def rounds(program, size, place):
        figure = found.get((program, size, place))
        return figure.rounds if figure else 0

    return min((max(min(rounds(program, size, place) for program in names) for place in places)
                for size, names in programs.items()), default=0)


def best_peer(all_figures, peers, size, place, rounds_min):
    """The fastest setting with enough rounds; with fewer rounds only if no setting has enough."""
    candidates = [f for f in (all_figures.get((peer, size, place)) for peer in peers) if f is not None]
    enough = [f for f in candidates if f.rounds >= rounds_min]
    return min(enough or candidates, key=lambda f: f.median_us, default=None)


def mark(operation, ranks, buffers, size):
    """(goal, stretch): times faster than the best peer; None where nothing is promised."""
    if operation != "all-reduce":
        return (1, 1) if ranks == 2 and size in OTHER_OPERATION_SIZES else None
    if ranks == 4:
        return (1, 1) if size in CROWDED_SIZES else None
    table = PRIVATE if buffers == "private" else REGISTERED
    if ranks != 2 or size not in MARKED_SIZES or size < min(table):
        return None
    return next(goal for limit, goal in table.items() if size <= limit)


def floor_share(operation, ranks, buffers, size):
    """The share of the floor that must be reached; None where nothing is promised."""
    if operation != "all-reduce" or ranks != 2:
        return None
    if buffers == "registered" and size >= MIB:
        return 0.80
    return None if buffers == "registered" and size == 8 else FLOOR_SHARES.get(size)


def promised(operation, ranks, buffers, size):
    """Whether anything is promised at this size."""
    return (mark(operation, ranks, buffers, size) is not None
            or floor_share(operation, ranks, buffers, size) is not None
            or (operation, ranks, size) == CROWDED_P99)


def misses(operation, ranks, buffers, ours, peer):
    """What a figure of ours fails to reach, in words; nothing when all marks are met."""
    found = []
    goal = mark(operation, ranks, buffers, ours.bytes)
    if goal is not None and peer is not None:
        ratio = peer.median_us / ours.median_us
        if ratio < goal[0]:
            found.append(f"{ratio:.2f} times faster, goal {goal[0]}")
        if ranks == 2 and ours.p99_us > peer.p99_us:
            found.append(f"p99 {ours.p99_us:.2f} us, peer {peer.p99_us:.2f}")
    share = floor_share(operation, ranks, buffers, ours.bytes)
    if share is not None and ours.share_of_limit is not None and ours.share_of_limit < share:
        found.append(f"{ours.share_of_limit:.0%} of the floor, goal {share:.0%}")
    if (operation, ranks, ours.bytes) == CROWDED_P99 and ours.p99_us >= CROWDED_P99_US:
        found.append(f"p99 {ours.p99_us:.0f} us, goal under {CROWDED_P99_US}")
    return found
