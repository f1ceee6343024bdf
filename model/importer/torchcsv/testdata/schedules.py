"""Write the schedules of all classes of torch.distributed.pipelining (2.15), and when they end, as a txtar archive:

python schedules.py >torch-2.15.txtar
"""

import inspect
import re
from unittest.mock import MagicMock

from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.stage import _PipelineStageBase

CLASSES = "GPipe 1F1B Interleaved1F1B LoopedBFS InterleavedZeroBubble ZBVZeroBubble DualPipeV".split()
F, I, W, TRANSFER = 10, 12, 8, 1


def stage(index, count, ranks):
    made = MagicMock(spec=_PipelineStageBase)
    made.stage_index, made.num_stages, made.group_rank, made.group_size = index, count, 0, ranks
    made.is_first, made.is_last, made.has_backward, made.group, made.submod = index == 0, index == count - 1, False, None, None
    made.stage_index_to_group_rank, made.device = {}, "cpu"
    return made


def rows(cls, ranks, batches):
    """Return the cells of each rank."""
    if issubclass(cls, schedules.PipelineScheduleSingle):
        order = cls(stage(0, ranks, ranks), batches)._get_pipeline_order()
    else:
        own = [0, 2 * ranks - 1] if cls in (schedules.ScheduleZBVZeroBubble, schedules.ScheduleDualPipeV) else [0, ranks]
        loss = {"loss_fn": lambda output, target: output} if "loss_fn" in inspect.signature(cls).parameters else {}
        order = cls([stage(i, 2 * ranks, ranks) for i in own], batches, **loss).pipeline_order
    return [["" if a is None else str(a) for a in order[r]] for r in range(ranks)]


def makespan(cells):
    """Return when the last operation ends if each starts as soon as it can, in the order of its rank."""
    ranks = [re.findall(r"(\d+)([FBIW])(\d+)", ",".join(row)) for row in cells]
    ranks = [[(int(s), op, int(b)) for s, op, b in row] for row in ranks]
    home = {s: r for r, row in enumerate(ranks) for s, _, _ in row}
    last = max(home)
    # The last stage of Schedule1F1B numbers its forwards from 1 on.
    if (last, "F", 0) not in ranks[home[last]]:
        ranks[home[last]] = [(s, op, b - (op == "F")) for s, op, b in ranks[home[last]]]
    end, free, at = {}, [0] * len(ranks), [0] * len(ranks)
    while any(at[r] < len(row) for r, row in enumerate(ranks)):
        moved = False
        for r, row in enumerate(ranks):
            while at[r] < len(row):
                s, op, b = row[at[r]]
                ready = free[r]
                before = s - 1 if op == "F" else s + 1
                if op != "W" and 0 <= before <= last:
                    key = (before, "F" if op == "F" else "B", b)
                    if key not in end:
                        break
                    ready = max(ready, end[key] + TRANSFER * (home[before] != r))
                free[r] = ready + {"F": F, "I": I, "W": W, "B": I + W}[op]
                end[s, "B" if op == "I" else op, b] = free[r]
                at[r], moved = at[r] + 1, True
        assert moved
    return max(free)


for name in CLASSES:
    for ranks in (2, 4, 8):
        for batches in {2: [2, 4, 6, 8, 12, 16], 4: [4, 6, 8, 12, 16, 24], 8: [8, 16]}[ranks]:
            if name == "DualPipeV" and batches < 2 * ranks:
                continue
            cells = rows(getattr(schedules, "Schedule" + name), ranks, batches)
            print(f"-- {name} {ranks} {batches} {makespan(cells)} --")
            for row in cells:
                print(",".join(row))
