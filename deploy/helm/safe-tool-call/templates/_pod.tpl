{{/*
The service's container, for the StatefulSet and for the pod of an agent.
*/}}
{{- define "safe-tool-call.container" -}}
{{- $sidecar := include "safe-tool-call.isSidecar" . -}}
name: safe-tool-call
image: {{ include "safe-tool-call.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- if $sidecar }}
# A native sidecar: it is up before the agent starts, and ends after it.
restartPolicy: Always
{{- end }}
args: [serve]
env:
  - { name: STC_CONFIG, value: /etc/stc/stc.yaml }
  - { name: STC_HOST, value: {{ if $sidecar }}127.0.0.1{{ else }}0.0.0.0{{ end }} }
  {{- if dig "limits" "memory" "" .Values.resources }}
  - name: BUN_JSC_forceRAMSize
    valueFrom:
      resourceFieldRef: { resource: limits.memory }
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  {{- if not $sidecar }}
  - { name: calls, containerPort: {{ .Values.ports.calls }} }
  {{- end }}
  {{- if .Values.console.enabled }}
  - { name: console, containerPort: {{ .Values.ports.console }} }
  {{- end }}
  {{- if .Values.hub.enabled }}
  - { name: hub, containerPort: {{ .Values.ports.hub }} }
  {{- end }}
  - { name: operators, containerPort: {{ .Values.ports.operators }} }
startupProbe:
  httpGet: { path: /readyz, port: operators }
  {{- toYaml .Values.startupProbe | nindent 2 }}
readinessProbe:
  httpGet: { path: /readyz, port: operators }
  {{- toYaml .Values.readinessProbe | nindent 2 }}
livenessProbe:
  httpGet: { path: /healthz, port: operators }
  {{- toYaml .Values.livenessProbe | nindent 2 }}
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- if $sidecar }}
  {{- toYaml (merge (deepCopy .Values.securityContext) (pick .Values.podSecurityContext "runAsUser" "runAsGroup")) | nindent 2 }}
  {{- else }}
  {{- toYaml .Values.securityContext | nindent 2 }}
  {{- end }}
volumeMounts:
  # Never by subPath: such a mount keeps the content that it began with.
  - { name: stc-config, mountPath: /etc/stc, readOnly: true }
  {{- if .Values.tools }}
  - { name: stc-tools, mountPath: /etc/stc-tools, readOnly: true }
  {{- end }}
  {{- range include "safe-tool-call.secretVolumes" . | fromYamlArray }}
  - { name: {{ .name }}, mountPath: {{ .path }}, readOnly: true }
  {{- end }}
  {{- if and .Values.hub.url .Values.hub.caConfigMap }}
  - { name: stc-hub-ca, mountPath: /etc/stc-hub-ca, readOnly: true }
  {{- end }}
  {{- if include "safe-tool-call.usesHubToken" . }}
  - { name: stc-hub-token, mountPath: /var/run/stc-hub, readOnly: true }
  {{- end }}
  {{- range .Values.secrets }}
  - { name: stc-secret-{{ . | replace "." "-" }}, mountPath: /etc/stc-secrets/{{ . }}, readOnly: true }
  {{- end }}
  {{- range .Values.configMaps }}
  - { name: stc-files-{{ . | replace "." "-" }}, mountPath: /etc/stc-files/{{ . }}, readOnly: true }
  {{- end }}
  - { name: stc-state, mountPath: /var/lib/stc }
  - { name: stc-scratch, mountPath: /tmp }
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Secrets that the chart's own values name: volume, Secret, folder, and the key that becomes a file of a fixed name. */}}
{{- define "safe-tool-call.secretVolumes" -}}
{{- with .Values.audit.signingKey }}{{ if .existingSecret }}
- { name: stc-audit-key, secret: {{ .existingSecret | quote }}, path: /etc/stc-audit-key, key: {{ .key | quote }}, file: private.pem }
{{- end }}{{ end }}
{{- with .Values.audit.hashKey }}{{ if .existingSecret }}
- { name: stc-hash-key, secret: {{ .existingSecret | quote }}, path: /etc/stc-hash-key, key: {{ .key | quote }}, file: key }
{{- end }}{{ end }}
{{- with .Values.audit.store }}{{ if .existingSecret }}
- { name: stc-audit-store, secret: {{ .existingSecret | quote }}, path: /etc/stc-audit-store, key: {{ .key | quote }}, file: url }
{{- end }}{{ end }}
{{- with .Values.postgresql }}{{ if .existingSecret }}
- { name: stc-postgresql, secret: {{ .existingSecret | quote }}, path: /etc/stc-postgresql, key: {{ .key | quote }}, file: url }
{{- end }}{{ end }}
{{- with .Values.console.oidc }}{{ if .existingSecret }}
- { name: stc-oidc, secret: {{ .existingSecret | quote }}, path: /etc/stc-oidc, key: {{ .key | quote }}, file: client-secret }
{{- end }}{{ end }}
{{- with include "safe-tool-call.tlsSecret" . }}
- { name: stc-tls, secret: {{ . | quote }}, path: /etc/stc-tls }
{{- end }}
{{- with include "safe-tool-call.consoleSecret" . }}
- { name: stc-console-tls, secret: {{ . | quote }}, path: /etc/stc-console-tls }
{{- end }}
{{- with include "safe-tool-call.clientSecret" . }}
- { name: stc-client-tls, secret: {{ . | quote }}, path: /etc/stc-client-tls }
{{- end }}
{{- with include "safe-tool-call.hubSecret" . }}
- { name: stc-hub-tls, secret: {{ . | quote }}, path: /etc/stc-hub-tls }
{{- end }}
{{- with include "safe-tool-call.hubClientSecret" . }}
- { name: stc-hub-client-tls, secret: {{ . | quote }}, path: /etc/stc-hub-client-tls }
{{- end }}
{{- end }}

{{/* Volumes of the container, but for the state. */}}
{{- define "safe-tool-call.volumes" -}}
- name: stc-config
  configMap: { name: {{ include "safe-tool-call.fullname" . | quote }} }
{{- if .Values.tools }}
- name: stc-tools
  configMap: { name: {{ include "safe-tool-call.fullname" . }}-tools }
{{- end }}
{{- range include "safe-tool-call.secretVolumes" . | fromYamlArray }}
- name: {{ .name }}
  secret:
    secretName: {{ .secret | quote }}
    defaultMode: 288 # 0440
    {{- if .key }}
    items: [{ key: {{ .key | quote }}, path: {{ .file }} }]
    {{- end }}
{{- end }}
{{- if .Values.hub.url }}
{{- with .Values.hub.caConfigMap }}
- name: stc-hub-ca
  configMap: { name: {{ . | quote }} }
{{- end }}
{{- end }}
{{- if include "safe-tool-call.usesHubToken" . }}
# Valid for the hub alone. The kubelet renews it, and the service reads it at each request.
- name: stc-hub-token
  projected:
    sources:
      - serviceAccountToken:
          audience: {{ .Values.hub.token.audience | quote }}
          expirationSeconds: {{ .Values.hub.token.expirationSeconds }}
          path: token
{{- end }}
{{- range .Values.secrets }}
- name: stc-secret-{{ . | replace "." "-" }}
  secret: { secretName: {{ . | quote }}, defaultMode: 288 } # 0440
{{- end }}
{{- range .Values.configMaps }}
- name: stc-files-{{ . | replace "." "-" }}
  configMap: { name: {{ . | quote }} }
{{- end }}
- name: stc-scratch
  emptyDir: { medium: Memory, sizeLimit: 64Mi }
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Rolls the pods when the files change. A service that watches its files loads changed manifests itself. */}}
{{- define "safe-tool-call.checksums" -}}
checksum/config: {{ include "safe-tool-call.config" . | sha256sum }}
{{- if ne (dig "reload" "trigger" "request" (include "safe-tool-call.written" . | fromYaml)) "watch" }}
checksum/tools: {{ toJson .Values.tools | sha256sum }}
{{- end }}
{{- end }}
