// Package packages owns tests of the deb and rpm packages that deploy/packages builds. What needs no package is in
// `make test`; what builds them, and tries them on fresh machines, in `make ship-check` (-ship).
package packages
