// The address is the state: every control is in it, so a link shows what its sender saw.

export function read() {
  const result = {};
  for (const [key, value] of new URLSearchParams(location.search)) result[key] = value;
  return result;
}

export function write(state) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) if (value !== "" && value !== null && value !== undefined) query.set(key, value);
  const text = query.toString().replaceAll("%2C", ",");
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
}

export const QUESTION = ["recipe", "model", "gpu", "gpus", "fabric", "node", "prefill_gpu", "prefill_gpus", "decode_gpu", "decode_gpus",
  "isl", "osl", "prefix_hit", "ttft_ms", "tpot_ms", "tok_s_user", "usd_per_gpu_hour", "strategy", "kv_dtype", "engine_version"];

export function question(state) {
  return Object.fromEntries(QUESTION.filter((k) => state[k]).map((k) => [k, state[k]]));
}
