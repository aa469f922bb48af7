"""What a workflow is: the model, its checks and the compiled manifest; pure."""
