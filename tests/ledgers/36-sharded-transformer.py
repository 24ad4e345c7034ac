"""transformers: a GPT-2 with random weights whose layers are spread over all GPUs, as device_map="auto" does; it generates."""
import os

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
from common import gpus, hold
import torch
from accelerate import dispatch_model, infer_auto_device_map
from transformers import GPT2Config, GPT2LMHeadModel

count, layers = gpus(), 8
config = GPT2Config(vocab_size=8000, n_positions=256, n_embd=768, n_layer=layers, n_head=12, bos_token_id=0, eos_token_id=1)
model = GPT2LMHeadModel(config).eval()
size = sum(parameter.numel() * 4 for parameter in model.parameters())
room = {ordinal: int(size / count * 1.25) + (24 << 20) for ordinal in range(count)}
places = infer_auto_device_map(model, max_memory={**room, "cpu": 8 << 30}, no_split_module_classes=["GPT2Block"])
print("places", sorted({str(place) for place in places.values()}))
model = dispatch_model(model, places)
tokens = torch.randint(2, 8000, (8, 48), device="cuda:0")
with torch.no_grad():
    new = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=16, do_sample=False, pad_token_id=1)
for ordinal in range(count):
    torch.cuda.synchronize(ordinal)
print("generated", tuple(new.shape))
hold(.4)
