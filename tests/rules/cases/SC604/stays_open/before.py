import csv
from pathlib import Path

import torch


class Recorder:
    def __init__(self, folder):
        self.file = (Path(folder) / "log.csv").open("a")
        self.table = csv.writer(self.file)

    def add(self, *row):
        self.table.writerow(row)
        self.file.flush()


def main():
    recorder = Recorder("out")
    errors = open("errors.txt", "w")
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(10):
        opt.zero_grad()
        net(torch.randn(2, 3)).sum().backward()
        opt.step()
        recorder.add(i, i * i)
        print("none", file=errors)
    errors.close()


if __name__ == "__main__":
    main()
