{{- define "safe-tool-call.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* At most 52 characters: a StatefulSet adds a hash to its name in a label of 63. */}}
{{- define "safe-tool-call.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (default .Chart.Name .Values.nameOverride) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "safe-tool-call.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "safe-tool-call.selectorLabels" -}}
app.kubernetes.io/name: {{ include "safe-tool-call.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "safe-tool-call.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "safe-tool-call.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: safe-tool-call
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Name and labels of an object: (dict "context" . "suffix" "console"). */}}
{{- define "safe-tool-call.metadata" -}}
name: "{{ include "safe-tool-call.fullname" .context }}{{ with .suffix }}-{{ . }}{{ end }}"
namespace: {{ .context.Release.Namespace | quote }}
labels: {{- include "safe-tool-call.labels" .context | nindent 2 }}
{{- with .labels }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with .annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "safe-tool-call.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "safe-tool-call.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "safe-tool-call.image" -}}
{{- $repository := required "image.repository is required: build the image (docs/install.md), push it to your registry, and name it here" .Values.image.repository -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "safe-tool-call.isSidecar" -}}
{{- if eq .Values.mode "sidecar" }}true{{ end }}
{{- end }}

{{/* Name of the Secret with a certificate, or nothing: (dict "context" . "values" .Values.tls "suffix" "tls"). */}}
{{- define "safe-tool-call.certificateSecret" -}}
{{- if .values.enabled }}
{{- if .values.existingSecret }}
{{- .values.existingSecret }}
{{- else if .context.Values.certManager.enabled }}
{{- printf "%s-%s" (include "safe-tool-call.fullname" .context) .suffix }}
{{- else }}
{{- fail (printf "%s: name a Secret in existingSecret, or enable certManager" .name) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "safe-tool-call.tlsSecret" -}}
{{- include "safe-tool-call.certificateSecret" (dict "context" . "values" .Values.tls "suffix" "tls" "name" "tls") }}
{{- end }}
{{- define "safe-tool-call.consoleSecret" -}}
{{- include "safe-tool-call.certificateSecret" (dict "context" . "values" .Values.console "suffix" "console-tls" "name" "console") }}
{{- end }}
{{- define "safe-tool-call.clientSecret" -}}
{{- include "safe-tool-call.certificateSecret" (dict "context" . "values" .Values.clientCertificate "suffix" "client-tls" "name" "clientCertificate") }}
{{- end }}
{{- define "safe-tool-call.hubSecret" -}}
{{- include "safe-tool-call.certificateSecret" (dict "context" . "values" .Values.hub "suffix" "hub-tls" "name" "hub") }}
{{- end }}
{{- define "safe-tool-call.hubClientSecret" -}}
{{- if .Values.hub.url }}
{{- include "safe-tool-call.certificateSecret" (dict "context" . "values" .Values.hub.clientCertificate "suffix" "hub-client-tls" "name" "hub.clientCertificate") }}
{{- end }}
{{- end }}

{{/* The hub's NetworkPolicy admits pods with it. */}}
{{- define "safe-tool-call.memberLabels" -}}
{{- if .Values.hub.url -}}
safe-tool-call/hub-member: "true"
{{- end }}
{{- end }}

{{/* Whether the service shows its hub a token of the pod's service account. */}}
{{- define "safe-tool-call.usesHubToken" -}}
{{- if and .Values.hub.url (not .Values.hub.clientCertificate.enabled) }}true{{ end }}
{{- end }}

{{/* Every name of a Service inside the cluster: (dict "context" . "suffix" "console"). */}}
{{- define "safe-tool-call.serviceNames" -}}
{{- $name := include "safe-tool-call.fullname" .context }}
{{- with .suffix }}{{ $name = printf "%s-%s" $name . }}{{ end }}
{{- $space := .context.Release.Namespace }}
- {{ $name | quote }}
- {{ $name }}.{{ $space }}
- {{ $name }}.{{ $space }}.svc
- {{ $name }}.{{ $space }}.svc.cluster.local
{{- end }}
