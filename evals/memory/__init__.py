"""How well facts are found again: paraphrased questions, distractors and stale facts."""
