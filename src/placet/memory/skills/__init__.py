"""Skills: instructions that a model loads when it needs them, and that stay if runs with them go better.

document    SKILL.md and its folder: read, validated, written
skill       a skill of the store, its triggers and its state
trial       arithmetic: which arm a run is in, and what both arms say
store       protocol of stores; in_memory and sql implement it
shelf       what a memory offers: names and descriptions, bodies on demand, outcomes of runs
tools       what a model can do: load a skill, run one of its scripts
learner     skills made by a model from trajectories: distilled, evolved, repaired
"""
