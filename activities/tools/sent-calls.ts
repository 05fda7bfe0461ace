/**
 * What this worker has sent, so that what let one call leave lets no second one leave from here (INV-X1).
 *
 * Genuine runs never send twice by one consent: each dispatch is an attempt of its own, and after a reset there is another consent, or
 * for what policy allows another Temporal run. Whoever may write to the namespace can schedule a genuine input again, though.
 *
 * 1. A call is known by what it is and by what let it leave, whichever workflow execution brings it.
 * 2. It is known from the moment at which it is handed over: of two at once one is sent.
 * 3. Memory of this process alone, and of its newest calls: it refuses what it knows, and proves nothing where it knows nothing.
 */
import type { DispatchInput } from '../../contracts/dispatch.ts';
import { hashOf } from '../../domain/canonical.ts';

/** About a hundred bytes each. */
const MOST_KNOWN = 20_000;

export class SentCalls {
  readonly #known = new Set<string>();
  readonly #most: number;

  constructor(most = MOST_KNOWN) {
    this.#most = most;
  }

  /** False where it was sent from here before; else it counts as sent. */
  take(input: DispatchInput): boolean {
    const keys = consentsOf(input).map((consent) => keyOf(input, consent));
    if (keys.some((key) => this.#known.has(key))) return false;
    for (const key of keys) this.#known.add(key);
    for (const oldest of this.#known) {
      if (this.#known.size <= this.#most) break;
      this.#known.delete(oldest);
    }
    return true;
  }
}

/** Of several who agreed each alone: in another order they are the same. */
function consentsOf({ proof, runId }: DispatchInput): readonly string[] {
  switch (proof.kind) {
    case 'policy':
      return [runId];
    case 'decision':
      return [proof.decision, ...(proof.further ?? [])].map(({ digest }) => digest);
    case 'standing':
      return proof.decisions.map(({ digest }) => digest);
  }
}

function keyOf({ run, callId, attempt }: DispatchInput, consent: string): string {
  return hashOf({ namespace: run.namespace, workflowId: run.workflowId, callId, attempt, consent });
}
