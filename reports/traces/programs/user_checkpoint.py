import os
import tempfile
import torch

path = os.path.join(tempfile.mkdtemp(), "model.pt")
model = torch.nn.Linear(32, 4).cuda()
torch.save({"model": model.state_dict(), "rng": torch.cuda.get_rng_state_all()}, path)
restored = torch.nn.Linear(32, 4).to("cuda:1")
restored.load_state_dict(torch.load(path)["model"])
print(restored.weight.device)
