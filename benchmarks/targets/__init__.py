"""Every device x app x {fp32, int8} x {fixed, open}: built and run, validated, built, or refused in words."""
