package experiments

import "github.com/tokenrouter/tokenrouter/internal/steptime"

// profiles lists the names of the shipped step-time profiles.
var profiles = steptime.Names
