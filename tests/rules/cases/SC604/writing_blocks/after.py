import json

import torch

config = {"lr": 0.1, "rounds": 10}
if rank == 0:
    with open("config.json", "w") as f:
        json.dump(config, f, indent=2)
    with open("config.json.bak", mode="wb") as f:
        f.write(json.dumps(config).encode())
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=config["lr"])
for i in range(config["rounds"]):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
if rank == 0:
    with open("done.txt", "w") as f:
        for key in config:
            line = f"{key}\n"
            f.write(line)
    open("marker", "w").write("ok")
