"""What runs the Runner's work: streams, events and copies on cpu, cuda, npu and a virtual clock."""
