// Package browser shows the dashboard to a real Chromium: a controller with its broker in this process, nodes that are
// played by package fleet, and a browser without a window that does what a person would do.
//
// With -ship it has 10,000 nodes, and takes the times. Pictures of what it saw lie in the directory that -pictures
// names.
package browser
