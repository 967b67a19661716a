// A decision point for tests: OPA's engine behind the evaluation endpoint of AuthZEN 1.0.
//
//	opa-authzen policy.rego
//
// It prints the address on which it listens. The query is data.authzen.answer, which is the whole answer.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/open-policy-agent/opa/v1/rego"
)

func main() {
	ctx := context.Background()
	query, err := rego.New(rego.Query("data.authzen.answer"), rego.Load([]string{os.Args[1]}, nil)).PrepareForEval(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	http.HandleFunc("POST /access/v1/evaluation", func(w http.ResponseWriter, r *http.Request) {
		var input any
		if err := json.NewDecoder(r.Body).Decode(&input); err != nil {
			http.Error(w, "not JSON", http.StatusBadRequest)
			return
		}
		results, err := query.Eval(r.Context(), rego.EvalInput(input))
		if err != nil || len(results) != 1 {
			http.Error(w, "no answer", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-ID", r.Header.Get("X-Request-ID"))
		json.NewEncoder(w).Encode(results[0].Expressions[0].Value)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr())
	http.Serve(listener, nil)
}
