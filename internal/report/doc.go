// Package report turns the results of an experiment, given as plain data, into
// what people read: tables for the terminal and Markdown, and one HTML page.
// Its sub-packages draw the figures and write the timeline.
//
// Nothing here reads a clock or the environment: equal input gives equal bytes.
package report
