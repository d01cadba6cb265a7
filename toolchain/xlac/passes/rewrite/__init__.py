"""How graphs are rewritten: patterns, rules, the rewriter, and a record of every rewrite."""
