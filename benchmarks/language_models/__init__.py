"""Speed and accuracy of language models on this CPU, beside other engines."""
