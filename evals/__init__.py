"""How well real models do fixed jobs. `python -m evals calls` and `turns` ask the local one;
`flows` asks none."""
