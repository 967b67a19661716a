{{/*
For charts that put the service beside an agent. Each takes the scope of this chart, `index .Subcharts "safe-tool-call"`:
docs/cluster.md has an example.
*/}}

{{/* An item of `initContainers`. */}}
{{- define "safe-tool-call.sidecar" -}}
- {{ include "safe-tool-call.container" . | nindent 2 | trim }}
{{- end }}

{{/* Items of `volumes`. */}}
{{- define "safe-tool-call.sidecar.volumes" -}}
{{ include "safe-tool-call.volumes" . }}
# Goes with the pod: what must outlive it is exported (config.audit.export).
- name: stc-state
  emptyDir: { sizeLimit: {{ .Values.persistence.size }} }
# Valid for this service alone: the API server refuses it.
- name: stc-token
  projected:
    sources:
      - serviceAccountToken:
          audience: {{ .Values.sidecar.tokenAudience | quote }}
          expirationSeconds: {{ .Values.sidecar.tokenExpirationSeconds }}
          path: token
{{- end }}

{{/* Items of `volumeMounts` of the agent's container. No other volume of these belongs there. */}}
{{- define "safe-tool-call.sidecar.agentVolumeMounts" -}}
- { name: stc-token, mountPath: /var/run/stc, readOnly: true }
{{- end }}

{{/* Items of `env` of the agent's container. */}}
{{- define "safe-tool-call.sidecar.agentEnv" -}}
- { name: STC_URL, value: "{{ ternary "https" "http" .Values.tls.enabled }}://127.0.0.1:{{ .Values.ports.calls }}" }
# Read it again for each call: the kubelet renews it.
- { name: STC_TOKEN_FILE, value: /var/run/stc/token }
{{- end }}

{{/* Members of the pod's `labels`: the PodMonitor and the hub's NetworkPolicy find the pod by them. */}}
{{- define "safe-tool-call.sidecar.podLabels" -}}
safe-tool-call/sidecar: {{ include "safe-tool-call.fullname" . | quote }}
{{ include "safe-tool-call.memberLabels" . }}
{{- end }}

{{/* Members of the pod's `annotations`. */}}
{{- define "safe-tool-call.sidecar.podAnnotations" -}}
{{ include "safe-tool-call.checksums" . }}
{{- end }}

{{/* Group of the pod's volumes (`securityContext.fsGroup`): the container reads Secrets by it. */}}
{{- define "safe-tool-call.sidecar.fsGroup" -}}
{{ .Values.podSecurityContext.fsGroup | int }}
{{- end }}
