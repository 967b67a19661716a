export type Stage =
  | "REQUEST"
  | "AUTH"
  | "REGISTRY"
  | "PERMISSION"
  | "VALIDATION"
  | "LIMIT"
  | "APPROVAL"
  | "EXECUTION"
  | "OUTPUT"
  | "AUDIT";
export type Code = string;

export interface Success {
  readonly status: "success";
  readonly tool: string;
  readonly untrusted: true;
  readonly result: unknown;
  readonly filteredFields: readonly string[];
  readonly truncated?: true;
  readonly traceId: string;
  readonly durationMs: number;
  readonly secretsSent?: readonly string[];
}

export interface Pending {
  readonly status: "pending";
  readonly approval: {
    readonly id: string;
    readonly decideBy: string;
    readonly statusUrl: string;
    readonly options: readonly ("cancel" | "once" | "session" | "bounded")[];
    readonly message: string;
  };
  readonly traceId: string;
  readonly secretsSent?: readonly string[];
}

export interface RefusalError {
  readonly code: Code;
  readonly stage: Stage;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly retryable: boolean;
  readonly retryAfterMs?: number;
}

export interface Refusal {
  readonly status: "denied" | "error";
  readonly error: RefusalError;
  readonly traceId?: string;
  readonly secretsSent?: readonly string[];
}

export interface DryRun {
  readonly status: "dryRun";
  readonly tool: string;
  readonly verdict: "allow" | "ask" | "deny";
  readonly error?: RefusalError;
  readonly traceId: string;
  readonly secretsSent?: readonly string[];
}

export interface ApprovalRequest {
  readonly id: string;
  readonly state:
    | "pending"
    | "approved"
    | "denied"
    | "expired"
    | "cancelled"
    | "revoked"
    | "claimed"
    | "executed"
    | "failed"
    | "in_doubt";
  readonly tool: string;
  readonly summary: string;
  readonly createdAt: string;
  readonly decideBy: string;
  readonly executeBy?: string;
  readonly scope?: string;
  readonly decisionReason?: string;
  readonly granted?: Readonly<Record<string, unknown>>;
  readonly options: readonly ("cancel" | "once" | "session" | "bounded")[];
}

export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly version: string;
  readonly classification: "read" | "write" | "destructive";
  readonly category: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}
