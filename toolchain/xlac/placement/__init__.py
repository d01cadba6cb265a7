"""One model on several devices of one process: which node is where, the stages that follow from
it, and the object that runs them in turn.
"""
