// Package api owns the controller's HTTP interface, the contract of shared/docs/http.md: its
// routes, who may call them, how errors look, and the listeners it is served on.
//
// What it guarantees:
//
//   - Every answer that is not a 2xx is JSON with a top-level "error"; the same mistake gets the same
//     code and status on every route. Unknown query parameters and fields are mistakes.
//   - No request makes it panic, use memory beyond its limits, or hold a connection for ever.
//   - On a unix socket the file's mode is the permission, and the caller's name comes from the
//     kernel. Over TCP nothing but health is answered without a token, and a token never crosses
//     another machine's network in the clear unless somebody asked for it explicitly.
//   - Streams end with a line that says why when the controller stops; requests that were being
//     worked on are given time to end.
//
// Package op has the operations. Here is what reads their inputs, finds what does them, and writes their
// answers.
//
// What it must not do: judge a document, keep state about the unit, or know more of the core than
// the Core interface.
package api
