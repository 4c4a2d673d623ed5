-- Opens the file of $PODFIT_FILE in Neovim with podfit's language server, and prints what the editor got as JSON.
local got = {}
local function wait(what, check)
  if not vim.wait(30000, check, 50) then
    io.stderr:write("no " .. what .. "\n")
    vim.cmd("cquit")
  end
end
vim.cmd("edit " .. vim.env.PODFIT_FILE)
local id = vim.lsp.start_client({ name = "podfit", cmd = { vim.env.PODFIT_PYTHON, "-m", "podfit.cli", "lsp" }, root_dir = vim.fn.getcwd() })
vim.lsp.buf_attach_client(0, id)
local function ask(method, params)
  local answers = vim.lsp.buf_request_sync(0, method, params, 30000)
  return answers and answers[id] and answers[id].result
end
wait("diagnostics", function() return #vim.diagnostic.get(0) > 0 end)
got.diagnostics = vim.tbl_map(function(one) return { one.code, one.lnum, one.severity } end, vim.diagnostic.get(0))
local this = { uri = vim.uri_from_bufnr(0) }
local args = vim.fn.search("args:", "nw") - 1
got.hover = ask("textDocument/hover", { textDocument = this, position = { line = args, character = 12 } }).contents.value
got.lens = ask("textDocument/codeLens", { textDocument = this })[1].command.title
local range = { start = { line = 0, character = 0 }, ["end"] = { line = 1000, character = 0 } }
local actions = ask("textDocument/codeAction", { textDocument = this, range = range, context = { diagnostics = {} } })
got.actions = vim.tbl_map(function(one) return one.title end, actions)
for _, action in ipairs(actions) do
  if vim.startswith(action.title, "podfit: --max-model-len") then
    vim.lsp.util.apply_workspace_edit(action.edit, "utf-16")
    break
  end
end
wait("newer diagnostics", function()
  return not vim.tbl_contains(vim.tbl_map(function(one) return one.code end, vim.diagnostic.get(0)), "kv-cache-too-small")
end)
got.after = vim.tbl_map(function(one) return one.code end, vim.diagnostic.get(0))
io.stdout:write(vim.fn.json_encode(got))
vim.cmd("qall!")
