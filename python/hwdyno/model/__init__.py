"""The words of a Run, a machine's facts, axes and units: plain data, which imports nothing of the other rooms."""
