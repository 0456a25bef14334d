"""Tools for models that have none of their own, or none that work.

schema        the answer is held to a JSON Schema: a union of actions; grammar: that schema
lenient       the model is asked for JSON, and it is looked for in the text; search: how
conversation  calls and results as plain messages; description: tools in words
answer_text   the words of an answer out of unfinished JSON
arguments     whether the arguments of a call fit its tool
"""
