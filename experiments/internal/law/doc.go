// Package law has nothing but tests: of the law that the tokens of a routed
// request, who wrote each, and its text never depend on how it was scheduled.
// Real engines run toy models here; package subserver holds its own tests to the
// same law with engines made for that.
package law
