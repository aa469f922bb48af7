"""Why a step or a run is where it is: one module for each situation."""
