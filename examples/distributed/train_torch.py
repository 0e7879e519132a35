"""Fits a line by DistributedDataParallel; every worker has a part of the points."""

import argparse
import os
import signal
from pathlib import Path

import torch
from torch import distributed, nn

parser = argparse.ArgumentParser()
parser.add_argument("checkpoints", type=Path)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--killed-in", type=int, help="epoch in which worker 1 is killed in the first attempt")
args = parser.parse_args()

distributed.init_process_group("gloo")  # by MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE
rank, world = distributed.get_rank(), distributed.get_world_size()
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
x = torch.linspace(0, 1, 100)[rank::world, None]
y = 3 * x + 1

checkpoint, start = args.checkpoints / "line.pt", 0
if checkpoint.exists():
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    start = saved["epoch"] + 1
print(f"rank {rank} of {world} starts with epoch {start}")

for epoch in range(start, args.epochs):
    if (epoch, rank, os.environ["FC_FRAMEWORK_ATTEMPT_ID"]) == (args.killed_in, 1, "0"):
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    distributed.all_reduce(loss.data)
    if rank == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").rename(checkpoint)  # whole, whenever this process ends
        print(f"epoch {epoch}: loss {loss.item() / world:.6f}")
    distributed.barrier()  # nobody begins an epoch before the one before it is saved

distributed.destroy_process_group()
