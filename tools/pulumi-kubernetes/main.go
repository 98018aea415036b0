// Command pulumi-resource-kubernetes serves the Kubernetes provider from its Go module.
package main

import (
	_ "embed"
	"fmt"
	"os"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var mapping []byte

// version is the version that the provider reports; it must be the module's own.
const version = "4.25.0"

func main() {
	// The provider has no flag of its own that says which it is; the cache and PATH need one.
	if len(os.Args) == 2 && os.Args[1] == "-version" {
		fmt.Println(version)
		return
	}
	provider.Serve("kubernetes", version, schema, mapping)
}
