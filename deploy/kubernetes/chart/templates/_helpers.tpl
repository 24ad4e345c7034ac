{{- /* The labels by which pods are chosen; the component is the caller's. */ -}}
{{- define "cuda-pitfalls.selector" -}}
app.kubernetes.io/name: cuda-pitfalls
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "cuda-pitfalls.labels" -}}
{{ include "cuda-pitfalls.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "cuda-pitfalls.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
