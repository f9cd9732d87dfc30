//go:build !race

package app

const slower = 1
