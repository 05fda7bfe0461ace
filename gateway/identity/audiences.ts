/**
 * Tells the audiences of the gate from that of the API (RFC 9068 §4): a token counts for one of them alone, so that
 * with what an agent has in hand nobody approves its calls.
 */
import type { GatewayConfig } from '../../contracts/schemas/gateway.ts';

export const GATE_PATH = '/mcp';

type Stated = Pick<GatewayConfig, 'gate' | 'signIn'>;

/** Origin of the gate's own address; undefined in development, where it is that of the request. */
export function gateOrigin({ gate, signIn }: Stated): string | undefined {
  const url = gate?.publicUrl ?? signIn?.publicUrl;
  return url === undefined ? undefined : new URL(url).origin;
}

/** URL of the gate, or of the gate at the address of one server. */
export function gateUrl(config: Stated, server?: string): string {
  return `${gateOrigin(config)}${GATE_PATH}${server === undefined ? '' : `/${encodeURIComponent(server)}`}`;
}

/** True if a token with this audience may be one for the gate, at whatever address of it. */
export function isOfGate(config: Stated, audience: string): boolean {
  if (config.gate === undefined) return false;
  const all = gateUrl(config);
  return audience === config.gate.audience || audience === all || audience.startsWith(`${all}/`);
}
