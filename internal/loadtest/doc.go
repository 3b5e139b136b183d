// Package loadtest sends the requests of a workload to servers that speak
// OpenAI's or SGLang's protocol and measures what their clients see: first
// tokens, gaps, ends, failures. Arrivals and lengths are those of package
// workload, figures those of package metrics: so that a measured server and a
// simulated one are compared by the same definitions.
//
// A token counts from the moment at which its bytes were read. An open request
// counts from when it was due, whether or not the client was able to send it
// then, so a slow client cannot make a server look fast.
package loadtest
