"""Uses of LLVM: optimisation, code generation, linking into this process; in separate processes
where it may abort.
"""
