{{/* `config` without sections whose keys are all commented out. */}}
{{- define "safe-tool-call.written" -}}
{{- range $key, $value := .Values.config }}
{{- if not (kindIs "invalid" $value) }}
{{ toYaml (dict $key $value) }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the configuration has unless `config` says otherwise. */}}
{{- define "safe-tool-call.configDefaults" -}}
server:
  # Until balancers know that a replica leaves, calls still come. A sidecar is told to end after its agent has ended.
  shutdownDelayMs: {{ if include "safe-tool-call.isSidecar" . }}0{{ else }}5000{{ end }}
  drainTimeoutMs: 25000
  {{- if .Values.console.enabled }}
  operatorsOnAgentPort: false
  {{- end }}
# A tool whose command the kernel cannot confine is not registered.
commands: { confinement: require }
approvals:
  deployment: {{ .Release.Namespace }}/{{ include "safe-tool-call.fullname" . }}
{{- if include "safe-tool-call.usesPostgresql" . }}
limits: { shared: true }
{{- end }}
{{- end }}

{{/* What the chart decides, because objects of the cluster must agree with it. */}}
{{- define "safe-tool-call.configDecided" -}}
server:
  host: {{ if include "safe-tool-call.isSidecar" . }}127.0.0.1{{ else }}0.0.0.0{{ end }}
  port: {{ .Values.ports.calls }}
  operator: { host: 0.0.0.0, port: {{ .Values.ports.operators }} }
  {{- if .Values.tls.enabled }}
  tls:
    certFile: /etc/stc-tls/tls.crt
    keyFile: /etc/stc-tls/tls.key
    {{- with .Values.tls.clientCertificates }}
    clientCaFile: /etc/stc-tls/ca.crt
    clientCertificates: {{ . }}
    {{- end }}
  {{- end }}
  {{- if .Values.console.enabled }}
  console:
    host: 0.0.0.0
    port: {{ .Values.ports.console }}
    tls: { certFile: /etc/stc-console-tls/tls.crt, keyFile: /etc/stc-console-tls/tls.key }
    publicUrl: {{ required "console.publicUrl is required with console.enabled" .Values.console.publicUrl | quote }}
  {{- end }}
audit:
  dir: /var/lib/stc/audit-logs
  {{- if .Values.audit.signingKey.existingSecret }}
  checkpointKeyFile: /etc/stc-audit-key/private.pem
  {{- end }}
  {{- if .Values.audit.hashKey.existingSecret }}
  hashKeyFile: /etc/stc-hash-key/key
  {{- end }}
  {{- if .Values.audit.store.existingSecret }}
  storeUrlFile: /etc/stc-audit-store/url
  {{- end }}
{{- if .Values.postgresql.existingSecret }}
approvals: { storeUrlFile: /etc/stc-postgresql/url }
{{- else if not (or .Values.hub.url (include "safe-tool-call.usesPostgresql" .)) }}
approvals: { store: "sqlite:///var/lib/stc/approvals.sqlite" }
{{- end }}
{{- if .Values.hub.enabled }}
hub:
  listen: { host: 0.0.0.0, port: {{ .Values.ports.hub }} }
  tls:
    certFile: /etc/stc-hub-tls/tls.crt
    keyFile: /etc/stc-hub-tls/tls.key
    {{- if .Values.hub.clientCertificates }}
    clientCaFile: /etc/stc-hub-tls/ca.crt
    {{- end }}
{{- else if .Values.hub.url }}
hub:
  url: {{ .Values.hub.url | quote }}
  {{- $certified := .Values.hub.clientCertificate.enabled }}
  {{- if or $certified .Values.hub.caConfigMap }}
  tls:
    caFile: {{ if .Values.hub.caConfigMap }}/etc/stc-hub-ca/ca.crt{{ else }}/etc/stc-hub-client-tls/ca.crt{{ end }}
    {{- if $certified }}
    certFile: /etc/stc-hub-client-tls/tls.crt
    keyFile: /etc/stc-hub-client-tls/tls.key
    {{- end }}
  {{- end }}
  {{- if not $certified }}
  tokenFile: /var/run/stc-hub/token
  {{- end }}
{{- end }}
{{- if .Values.console.oidc.existingSecret }}
console: { oidc: { clientSecretFile: /etc/stc-oidc/client-secret } }
{{- end }}
{{- end }}

{{- define "safe-tool-call.usesPostgresql" -}}
{{- if or .Values.postgresql.existingSecret (dig "approvals" "storeUrlFile" "" (include "safe-tool-call.written" . | fromYaml)) }}true{{ end }}
{{- end }}

{{/* The same key in `config` and in what the chart decides is an error: one of them would be ignored. */}}
{{- define "safe-tool-call.refuseDecided" -}}
{{- range $key, $value := .decided }}
{{- if hasKey $.config $key }}
{{- $written := get $.config $key }}
{{- if and (kindIs "map" $value) (kindIs "map" $written) }}
{{- include "safe-tool-call.refuseDecided" (dict "path" (printf "%s.%s" $.path $key) "decided" $value "config" $written) }}
{{- else if not (kindIs "invalid" $written) }}
{{- fail (printf "%s.%s: the chart sets this key from its other values (deploy/helm/safe-tool-call/values.yaml): leave it out" $.path $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The service's configuration, as YAML. */}}
{{- define "safe-tool-call.config" -}}
{{- $written := include "safe-tool-call.written" . | fromYaml }}
{{- $decided := include "safe-tool-call.configDecided" . | fromYaml }}
{{- include "safe-tool-call.refuseDecided" (dict "path" "config" "decided" $decided "config" $written) }}
{{- if not (dig "jwt" "" $written) }}
{{- fail "config.jwt is required: whose tokens the service accepts (docs/identity.md)" }}
{{- end }}
{{- $config := mergeOverwrite (include "safe-tool-call.configDefaults" . | fromYaml) $written $decided }}
{{- $tools := concat (dig "tools" list $written) (ternary (list "/etc/stc-tools") list (not (empty .Values.tools))) }}
{{- $bundled := dig "bundle" dict $written }}
{{- if not (or $tools (dig "tenants" dict $written) $bundled) }}
{{- fail "tools is required: manifests by file name, or folders of the image in config.tools" }}
{{- end }}
{{- /* With a list of its own, even an empty one, the service refuses a bundle that has tools. */}}
{{- if or $tools (not $bundled) }}
{{- $_ := set $config "tools" (default list $tools) }}
{{- end }}
{{- if not (include "safe-tool-call.isSidecar" .) }}
{{- $hosts := include "safe-tool-call.serviceNames" (dict "context" .) | fromYamlArray }}
{{- $hosts = concat $hosts .Values.ingress.calls.hosts .Values.httpRoute.calls.hostnames (dig "server" "allowedHosts" list $written) }}
{{- $_ := set $config.server "allowedHosts" (uniq $hosts) }}
{{- end }}
{{- if .Values.console.enabled }}
{{- $hosts := include "safe-tool-call.serviceNames" (dict "context" . "suffix" "console") | fromYamlArray }}
{{- $hosts = concat $hosts .Values.ingress.console.hosts .Values.httpRoute.console.hostnames (dig "server" "console" "allowedHosts" list $written) }}
{{- $_ := set $config.server.console "allowedHosts" (uniq $hosts) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* Values that do not go together. */}}
{{- define "safe-tool-call.check" -}}
{{- $hub := dig "hub" dict (include "safe-tool-call.written" . | fromYaml) }}
{{- range list "listen" "url" "tls" "tokenFile" }}
{{- if hasKey $hub . }}
{{- fail (printf "config.hub.%s: the chart sets this key from its other values (hub): leave it out" .) }}
{{- end }}
{{- end }}
{{- with .Values.hub }}
{{- if .url }}
{{- range $name, $given := dict "hub.enabled" .enabled "postgresql.existingSecret" $.Values.postgresql.existingSecret "console.enabled" $.Values.console.enabled }}
{{- if $given }}
{{- fail (printf "%s: not with hub.url, which makes the service a member: the hub has the database and the console" $name) }}
{{- end }}
{{- end }}
{{- if include "safe-tool-call.usesPostgresql" $ }}
{{- fail "config.approvals.storeUrlFile: not with hub.url, which makes the service a member: the hub has the database" }}
{{- end }}
{{- else if $hub }}
{{- if not .enabled }}
{{- fail "config.hub needs hub.enabled or hub.url" }}
{{- end }}
{{- end }}
{{- if and .enabled (not $hub.members) (not (include "safe-tool-call.isSidecar" $)) }}
{{- fail "hub.enabled needs config.hub.members: who may connect" }}
{{- end }}
{{- end }}
{{- if include "safe-tool-call.isSidecar" . }}
{{- with .Values }}
{{- $outside := dict "console" .console "autoscaling" .autoscaling "serviceMonitor" .serviceMonitor "hub" .hub }}
{{- $_ := merge $outside (dict "ingress.calls" .ingress.calls "ingress.console" .ingress.console) }}
{{- $_ = merge $outside (dict "httpRoute.calls" .httpRoute.calls "httpRoute.console" .httpRoute.console) }}
{{- range $name, $values := $outside }}
{{- if $values.enabled }}
{{- fail (printf "%s.enabled: not with mode: sidecar, which is reached inside its pod alone" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- else }}
{{- $isShared := or .Values.hub.url (include "safe-tool-call.usesPostgresql" .) }}
{{- if and .Values.autoscaling.enabled (not $isShared) }}
{{- fail "autoscaling.enabled needs postgresql.existingSecret: SQLite is on one pod's volume" }}
{{- end }}
{{- if and (gt (int .Values.replicaCount) 1) (not $isShared) }}
{{- fail (printf "replicaCount: %d needs postgresql.existingSecret: SQLite is on one pod's volume" (int .Values.replicaCount)) }}
{{- end }}
{{- range $name, $required := dict "ingress" (list "hosts") "httpRoute" (list "hostnames" "parentRefs") }}
{{- range $listener, $route := get $.Values $name }}
{{- if $route.enabled }}
{{- if and (eq $listener "console") (not $.Values.console.enabled) }}
{{- fail (printf "%s.console.enabled needs console.enabled" $name) }}
{{- end }}
{{- range $required }}
{{- if not (get $route .) }}
{{- fail (printf "%s.%s.%s is required with enabled: the service answers to the names that it knows" $name $listener .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The delay, the drain, and time for the ends. */}}
{{- define "safe-tool-call.gracePeriodSeconds" -}}
{{- $server := (include "safe-tool-call.config" . | fromYaml).server }}
{{- $needed := add (div (add (int $server.shutdownDelayMs) (int $server.drainTimeoutMs) 999) 1000) 5 }}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds }}
{{- add $needed 10 }}
{{- else if lt (int .Values.terminationGracePeriodSeconds) (int $needed) }}
{{- fail (printf "terminationGracePeriodSeconds: at least %d (config.server.shutdownDelayMs, config.server.drainTimeoutMs and 5 s): the service would be killed while it drains" $needed) }}
{{- else }}
{{- int .Values.terminationGracePeriodSeconds }}
{{- end }}
{{- end }}
