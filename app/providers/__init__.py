"""The tongues: only here is a model server's wire or SDK known."""
