"""Evidence for safety cases of the embedded app: bounds of loops, and rules of MISRA C that its code breaks."""
