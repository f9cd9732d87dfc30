// Package images owns tests of the container images that deploy/ship/images makes: they are run by crun and runc, and
// the unit of deploy/images/compose.yaml as shared/docs/images.md has it. Images of every architecture are made in
// `make ship-check` (-ship).
package images
