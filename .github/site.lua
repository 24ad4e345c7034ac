-- Leads the links of a page to the other pages of the site, and gives it its title. `.github/site` sets the variables.
local page, site = os.getenv("PAGE") .. "/", os.getenv("SITE") .. "/"
local title

function Link(link)
  local path, anchor = link.target:match("^([^#]*)(.*)$")
  local html = path:gsub("%.md$", ""):gsub("README$", "index") .. ".html"
  if path == "" or path:match("^%a+:") then
    return nil
  elseif not io.open(page .. path) then
    error("dead link in " .. page .. ": " .. link.target)
  elseif path:match("%.md$") or io.open(site .. page .. html) then
    link.target = html .. anchor
  else
    link.target = os.getenv("REPOSITORY") .. "/" .. page .. path .. anchor
  end
  return link
end

function Header(header)
  title = title or pandoc.utils.stringify(header)
end

function Pandoc(document)
  document.meta.title = title
  return document
end
