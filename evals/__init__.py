"""How well real models do fixed jobs. `python -m evals turns` asks the local one."""
