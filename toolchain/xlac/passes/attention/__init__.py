"""Recognizes attention written as simpler operations, and replaces it by the operation
`attention`.
"""
