// Package measure runs a system of models in real time under the same load as
// the simulator, and watches it: the requests are those of package workload,
// the figures those of package metrics. What it finds are measurements, so two
// runs differ, and nothing else should run beside it.
package measure
