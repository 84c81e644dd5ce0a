"""The study of xLLM pull request 2280: an application on simtool that answers its three claims."""
