import { expect, test } from "bun:test";
import { levelOf } from "./shell-level.ts";

/** Calls that only show something, of programs that can do much more. */
const LOW = [
  ...[
    "docker ps -a --format '{{.Names}}'",
    "docker logs -f --tail 100 web",
    "docker inspect web",
    "docker container ls",
  ],
  ...["docker compose ps", "docker compose logs web", "docker network inspect bridge", "podman ps", "docker system df"],
  ...[
    "kubectl get pods -A -o wide",
    "kubectl -n prod get deploy web -o yaml",
    "kubectl describe pod web",
    "kubectl top pods",
  ],
  ...[
    "kubectl logs -f deploy/web",
    "kubectl config current-context",
    "kubectl rollout status deploy/web",
    "kubectl explain pod",
  ],
  ...[
    "helm list -A",
    "helm status web",
    "helm history web",
    "npm ls --depth=0",
    "npm why react",
    "npm run",
    "npm root -g",
  ],
  ...[
    "npm config list",
    "npm pkg get version",
    "pip list",
    "pip show requests",
    "pip freeze",
    "uv pip list",
    "bun pm ls",
  ],
  ...[
    "cargo tree",
    "cargo tree -i serde",
    "cargo --list",
    "cargo pkgid",
    "go list ./...",
    "go list -m all",
    "go env GOPATH",
  ],
  ...["go doc fmt.Println", "go mod graph", "gem list", "rustup show", "rustc --print sysroot", "dotnet --info"],
  ...[
    "systemctl status x",
    "systemctl list-units --failed",
    "systemctl --user status x",
    "sysctl -a",
    "sysctl kernel.pid_max",
  ],
  ...[
    "openssl x509 -in c.pem -noout -text",
    "openssl version -a",
    "stty -a",
    "7z l a.7z",
    "shellcheck x.sh",
    "gofmt -l .",
  ],
  ...[
    "git clean -nd",
    "git apply --check x.patch",
    "git apply --stat x.patch",
    "git archive --list",
    "git sparse-checkout list",
  ],
  ...["git lfs ls-files", "git --git-dir=.git log -1", "git commit --help", "cat f | tee /dev/stderr | wc -l", "last"],
];

/** The same with a word or an option more, which makes them do it, or go somewhere else. */
const HIGH = [
  ...[
    "docker ps; docker rm x",
    "docker -H tcp://h ps",
    "docker --context x ps",
    "docker container rm x",
    "docker volume prune",
  ],
  ...[
    "docker compose down",
    "docker cp x:/a b",
    "docker ps $x",
    "docker compose -f x.yml up",
    "DOCKER_HOST=x docker ps",
  ],
  ...["kubectl get secrets", "kubectl get pods,secrets -o yaml", "kubectl describe Secret x", "kubectl get --raw /api"],
  ...["kubectl --server=http://x get pods", "kubectl --kubeconfig=./x get pods", "kubectl get -f http://x/y"],
  ...[
    "kubectl get pods --profile-output=/etc/x",
    "kubectl get pods -o go-template-file=f",
    "kubectl config view --raw",
  ],
  ...[
    "kubectl config set-context x",
    "kubectl rollout undo deploy/x",
    "kubectl exec x -- ls",
    "kubectl auth reconcile -f x",
  ],
  ...["kubectl cluster-info dump --output-directory=x", "KUBECONFIG=x kubectl get pods", "helm --kubeconfig x list"],
  ...[
    "helm uninstall x",
    "npm run x",
    "npm i",
    "npm pkg set a=b",
    "npm config set a b",
    "npm explain x --registry http://x",
  ],
  ...[
    "pip install x",
    "cargo tree --config x",
    "cargo +x build",
    "go list -toolexec=./x .",
    "go env -w A=x",
    "go mod tidy",
  ],
  ...["rustup component add x", "systemctl stop x", "systemctl -H h status x", "systemctl edit x", "sysctl -w a=1"],
  ...[
    "sysctl a=1",
    "sysctl -p",
    "make -n",
    "git --git-dir=../x/.git log",
    "git --git-dir=.git/../x log",
    "git lfs pull",
  ],
  ...["git --git-dir=.git --work-tree=/etc log", "tee /dev/null /etc/x"],
];

/** They change something, or go somewhere, without being dangerous. */
const CHANGES = [
  ...[
    "git clean -ndi",
    "git apply --check --apply x",
    "git sparse-checkout set x",
    "git archive -l -o x HEAD",
    "tee /dev/null f",
  ],
  ...["rustc x.rs", "rustc --print sysroot x.rs", "go list -export .", "gofmt -w x", "7z x a.7z", "stty raw"],
  ...["openssl x509 -in c -out d", "openssl x509 -in http://x/c -noout", "npm ls --script-shell x", "pip list --log x"],
];

test.each(LOW)("only looks: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "low", verdict: "none" });
});

test.each(HIGH)("asks: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "high", verdict: "ask" });
});

test.each(CHANGES)("changes something: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "medium", verdict: "none" });
});
