// The kinds of attention by their names in Python (inspection/trace/base.py, KINDS).
export const KINDS = { cross: "cross-attention", source: "self-attention of the source", target: "self-attention of the target" };
